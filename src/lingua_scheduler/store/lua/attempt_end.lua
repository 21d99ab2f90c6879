-- attempt_end: an attempt is over; the lease that is removed by name is what makes this safe to repeat.
-- A node's word counts only with its epoch; a sweep ends what is overdue, in any epoch. An attempt that was given up
-- while its node may still run it keeps its slot for `linger_ms`, or until the node lets go of it.
-- Replies: ended owner session utterance verdict (on the node: quarantined, recovered or empty) | stale | alive (to be ended only if overdue, and it is not)
--          | gone (Redis knows nothing of the job: it lost its data, or forgot an old job)
-- include: clock
-- include: slots
-- include: history
-- include: judging
local job_key   = KEYS[1]   -- hash, the job
local leases    = KEYS[2]   -- zset lease -> deadline
local free      = KEYS[3]   -- zset node -> free slots, only nodes that take work
local held      = KEYS[4]   -- zset node -> live leases
local limits    = KEYS[5]   -- hash node -> slots
local trouble   = KEYS[6]   -- hash node -> its last outcomes, quarantines in a row, when the last began
local sick      = KEYS[7]   -- zset node -> quarantined until
local lease     = ARGV[1]
local attempt   = ARGV[2]
local node      = ARGV[3]
local epoch     = ARGV[4]   -- empty: it is not the node that says so
local overdue   = ARGV[5]   -- 1: only if its deadline has passed
local before    = ARGV[6]   -- states in which this may happen
local state     = ARGV[7]
local reason    = ARGV[8]
local linger_ms = ARGV[9]   -- 0: the slot is free at once
local mark      = ARGV[10]  -- o or x: what this says of the node; empty: nothing
local rules     = ARGV[11]  -- of quarantine: failures window consecutive first_ms longest_ms
local now_ms    = ARGV[12]

local deadline = redis.call('ZSCORE', leases, lease)
local known = redis.call('HMGET', job_key, 'attempt', 'node', 'epoch', 'state', 'owner', 'session', 'utterance', 'steps',
  'dispatched_ms')
if not deadline then return {known[1] and 'stale' or 'gone'} end
local moment = clock(now_ms)
if overdue == '1' and tonumber(deadline) > moment then return {'alive'} end

local current = known[1] == attempt and known[2] == node and string.find(before, known[4], 1, true)
if current and epoch ~= '' and known[3] ~= epoch then return {'stale'} end
if current and linger_ms ~= '0' then
  redis.call('ZADD', leases, moment + linger_ms, lease)
else
  redis.call('ZREM', leases, lease)
  give_back(node, free, held, limits)
end
-- A lease that outlived its attempt gives its slot back, but there is no job left to end.
if not current then return {'stale'} end
local at_ms = string.format('%.0f', moment)
redis.call('HSET', job_key, 'state', state, 'reason', reason, 'ended_ms', at_ms,
  remembered(known[8], state, at_ms, attempt, node, reason))
local verdict = ''
if mark ~= '' then verdict = judge(node, mark, known[9], moment, rules, trouble, sick, limits) end
return {'ended', known[5] or '', known[6] or '', known[7] or '', verdict}
