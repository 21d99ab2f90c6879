-- request_bind: bind a request to its job, which has a slot; only the holder of the claim may run it.
-- Called before the frame is sent, at every attempt: a holder that was frozen finds another token, and gives up.
-- An expired claim that no one took over is still valid.
-- Replies: bound | lost (the claim is gone, or has another holder)
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
