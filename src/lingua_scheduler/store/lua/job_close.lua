-- job_close: end a job that has no live attempt (it found no node, or no other node).
-- Replies: closed | stale (no such job, another attempt, or it has ended)
-- include: clock
-- include: history
local job_key = KEYS[1]   -- hash, the job
local attempt = ARGV[1]
local before  = ARGV[2]   -- states in which this may happen
local state   = ARGV[3]
local reason  = ARGV[4]
local now_ms  = ARGV[5]

local known = redis.call('HMGET', job_key, 'attempt', 'state', 'node', 'steps')
if known[1] ~= attempt or not string.find(before, known[2], 1, true) then return {'stale'} end
local at_ms = string.format('%.0f', clock(now_ms))
redis.call('HSET', job_key, 'state', state, 'reason', reason, 'ended_ms', at_ms,
  remembered(known[4], state, at_ms, attempt, known[3], reason))
return {'closed'}
