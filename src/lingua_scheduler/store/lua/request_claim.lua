-- request_claim: idempotency: claim the right to place the job of a request, for a limited time.
-- A claim that expired before it was bound has no job, so the next caller takes over; the token distinguishes the two.
-- Replies: claimed | bound job node attempt secret token | pending left_ms (another caller has claimed it)
--          | conflict (the id was used for a different request)
-- include: clock
-- include: number
local request  = KEYS[1]   -- hash, the request
local token    = ARGV[1]   -- one per caller
local instance = ARGV[2]
local payload  = ARGV[3]   -- digest of the request
local claim_ms = ARGV[4]   -- time to place a job
local keep_ms  = ARGV[5]
local now_ms   = ARGV[6]

local moment = clock(now_ms)
local known = redis.call('HMGET', request, 'token', 'payload', 'until', 'job', 'node', 'attempt', 'key')
-- What cannot be read has lapsed.
local is_bound = known[4] and known[5] and read_number(known[6], 9)
if known[1] and (read_number(known[3]) or 0) > moment and (is_bound or not known[4]) then
  if known[2] ~= payload then return {'conflict'} end
  if known[4] then return {'bound', known[4], known[5], known[6], known[7] or '', known[1]} end
  if known[1] ~= token then return {'pending', known[3] - moment} end
end
redis.call('DEL', request)
redis.call('HSET', request, 'token', token, 'instance', instance, 'payload', payload,
  'until', string.format('%.0f', moment + claim_ms))
redis.call('PEXPIRE', request, keep_ms)
return {'claimed'}
