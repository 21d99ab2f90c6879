-- request_bind: the job of a request has a slot; only the one who holds the claim may let it run.
-- Asked before the frame leaves, at every attempt: who was frozen meanwhile finds the token of another, and stands back.
-- A lapsed claim that nobody took over is still good.
-- Replies: bound | lost (the claim is gone, or somebody else's)
-- include: clock
local request = KEYS[1]   -- hash, the request
local token   = ARGV[1]
local job     = ARGV[2]
local node    = ARGV[3]
local attempt = ARGV[4]
local secret  = ARGV[5]   -- what the caller fetches the result with
local keep_ms = ARGV[6]   -- how long repeats are answered with this job
local now_ms  = ARGV[7]

if redis.call('HGET', request, 'token') ~= token then return {'lost'} end
redis.call('HSET', request, 'job', job, 'node', node, 'attempt', attempt, 'key', secret,
  'until', string.format('%.0f', clock(now_ms) + keep_ms))
redis.call('PEXPIRE', request, keep_ms)
return {'bound'}
