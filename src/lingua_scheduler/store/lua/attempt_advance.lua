-- attempt_advance: a live attempt moves on (accepted, started) and its lease gets a new deadline.
-- Replies: advanced | stale (not the current attempt, not this node's, not from this life of the node, or ended)
-- include: clock
-- include: history
local job_key = KEYS[1]   -- hash, the job
local leases  = KEYS[2]   -- zset lease -> deadline
local lease   = ARGV[1]
local attempt = ARGV[2]
local node    = ARGV[3]
local epoch   = ARGV[4]
local before  = ARGV[5]   -- states in which this may happen
local state   = ARGV[6]
local now_ms  = ARGV[7]

local known = redis.call('HMGET', job_key, 'attempt', 'node', 'epoch', 'state', 'run_ms', 'steps')
if known[1] ~= attempt or known[2] ~= node or known[3] ~= epoch then return {'stale'} end
local moment = clock(now_ms)
local deadline = redis.call('ZSCORE', leases, lease)
if not deadline or tonumber(deadline) <= moment then return {'stale'} end
if known[4] == state then return {'advanced'} end
if not string.find(before, known[4], 1, true) then return {'stale'} end
redis.call('ZADD', leases, moment + known[5], lease)
local at_ms = string.format('%.0f', moment)
redis.call('HSET', job_key, 'state', state, string.lower(state) .. '_ms', at_ms,
  remembered(known[6], state, at_ms, attempt, node, ''))
return {'advanced'}
