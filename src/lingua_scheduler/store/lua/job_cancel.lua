-- job_cancel: cancel a job. Its attempt, if it has one, ends: later messages of the node about it are stale. A slot that
-- the node may still use stays occupied for `linger_ms`, or until the node releases it.
-- Replies: cancelled | ended state (it had already ended) | moved (another attempt, or the job is now in another shard:
--          look again) | gone (no such job)
-- include: clock
-- include: number
-- include: lease
-- include: leased
-- include: slots
-- include: record
local job_key   = KEYS[1]   -- string, the job's record
local leases    = KEYS[2]   -- zset lease -> deadline
local free      = KEYS[3]   -- zset node -> free slots, only nodes that accept jobs
local held      = KEYS[4]   -- zset node -> live leases
local limits    = KEYS[5]   -- hash node -> slots
local job       = ARGV[1]
local attempt   = ARGV[2]   -- the attempt the caller knows of
local before    = ARGV[3]   -- states in which this may happen
local live      = ARGV[4]   -- states of a job that has a live attempt
local state     = ARGV[5]
local reason    = ARGV[6]
local linger_ms = ARGV[7]   -- 0: the slot is free at once
local now_ms    = ARGV[8]

local known = read_record(job_key)
if not known then return {'gone'} end
if not string.find(before, known.state, 1, true) then return {'ended', known.state} end
local is_live = string.find(live, known.state, 1, true)
local is_elsewhere = string.find(known.rest, '\nmoved_to ', 1, true)
if known.attempt ~= attempt or (is_elsewhere and not is_live) then return {'moved'} end

local moment = clock(now_ms)
local lease = job .. '#' .. attempt .. '#' .. known.node
if is_live then
  local is_lost = not redis.call('ZSCORE', leases, lease)
  if not is_lost and linger_ms ~= '0' then
    redis.call('ZADD', leases, moment + linger_ms, lease)
  else
    redis.call('ZREM', leases, lease)
    give_back({[known.node] = 1}, {[known.node] = is_lost}, free, held, limits, leases)
  end
end
move(known, state, string.format('%.0f', moment), reason)
write_record(job_key, known)
return {'cancelled'}
