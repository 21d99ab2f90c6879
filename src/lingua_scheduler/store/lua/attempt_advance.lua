-- attempt_advance: some live attempts move on (accepted, started) and their leases get new deadlines.
-- No job comes twice.
-- Replies: of each attempt: advanced | stale (not the current attempt, not this node's, not from this life of the node, or ended)
-- include: clock
-- include: history
local leases   = KEYS[1]   -- zset lease -> deadline
local job_keys = {unpack(KEYS, 2)}  -- hashes, the jobs
local before   = ARGV[1]   -- states in which this may happen
local state    = ARGV[2]
local now_ms   = ARGV[3]
local moves    = {unpack(ARGV, 4)}  -- of each attempt the WORDS that are named below

local WORDS = 4
local moment = clock(now_ms)
local at_ms = string.format('%.0f', moment)
local replies = {}
for i, job_key in ipairs(job_keys) do
  local lease, attempt, node, epoch = unpack(moves, (i - 1) * WORDS + 1, i * WORDS)
  local known = redis.call('HMGET', job_key, 'attempt', 'node', 'epoch', 'state', 'run_ms', 'steps')
  local deadline = redis.call('ZSCORE', leases, lease)
  replies[i] = 'stale'
  if known[1] == attempt and known[2] == node and known[3] == epoch and deadline and tonumber(deadline) > moment then
    if known[4] == state then
      replies[i] = 'advanced'
    elseif string.find(before, known[4], 1, true) then
      redis.call('ZADD', leases, moment + known[5], lease)
      redis.call('HSET', job_key, 'state', state, string.lower(state) .. '_ms', at_ms,
        remembered(known[6], state, at_ms, attempt, node, ''))
      replies[i] = 'advanced'
    end
  end
end
return replies
