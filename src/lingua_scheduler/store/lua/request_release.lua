-- request_release: the job of a request failed, so a repeat may try again.
-- Replies: released | lost (the claim is gone, or has another holder)
local request = KEYS[1]   -- hash, the request
local token   = ARGV[1]

if redis.call('HGET', request, 'token') ~= token then return {'lost'} end
redis.call('DEL', request)
return {'released'}
