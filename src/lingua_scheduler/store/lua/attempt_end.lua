-- attempt_end: an attempt is over, its slot is free again; the lease that is removed by name is what makes this safe.
-- A node's word counts only with its epoch; a sweep ends what is overdue, in any epoch.
-- Replies: ended owner session utterance | stale | alive (to be ended only if overdue, and it is not)
--          | gone (Redis knows nothing of the job: it lost its data, or forgot an old job)
-- include: clock
local job_key = KEYS[1]   -- hash, the job
local leases  = KEYS[2]   -- zset lease -> deadline
local free    = KEYS[3]   -- zset node -> free slots, only nodes that take work
local held    = KEYS[4]   -- zset node -> live leases
local limits  = KEYS[5]   -- hash node -> slots
local lease   = ARGV[1]
local attempt = ARGV[2]
local node    = ARGV[3]
local epoch   = ARGV[4]   -- empty: any
local overdue = ARGV[5]   -- 1: only if its deadline has passed
local before  = ARGV[6]   -- states in which this may happen
local state   = ARGV[7]
local reason  = ARGV[8]
local now_ms  = ARGV[9]

local moment = clock(now_ms)
local known = redis.call('HMGET', job_key, 'attempt', 'node', 'epoch', 'state', 'owner', 'session', 'utterance')
if not known[1] and not redis.call('ZSCORE', leases, lease) then return {'gone'} end
local current = known[1] == attempt and known[2] == node and string.find(before, known[4], 1, true)
if current and epoch ~= '' and known[3] ~= epoch then return {'stale'} end
if not current and epoch ~= '' then return {'stale'} end
if overdue == '1' then
  local deadline = redis.call('ZSCORE', leases, lease)
  if deadline and tonumber(deadline) > moment then return {'alive'} end
end
if redis.call('ZREM', leases, lease) == 0 then return {'stale'} end

local running = tonumber(redis.call('ZINCRBY', held, -1, node))
if running <= 0 then redis.call('ZREM', held, node) end
local limit = redis.call('HGET', limits, node)
if limit then redis.call('ZADD', free, 'XX', math.max(0, limit - running), node) end
-- A lease whose record expired or moved on still gives its slot back, but there is no job left to end.
if not current then return {'stale'} end
redis.call('HSET', job_key, 'state', state, 'reason', reason, 'ended_ms', string.format('%.0f', moment))
return {'ended', known[5] or '', known[6] or '', known[7] or ''}
