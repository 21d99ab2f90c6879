-- request_release: the job of a request came to nothing, so a repeat may try anew.
-- Replies: released | lost (the claim is gone, or somebody else's)
local request = KEYS[1]   -- hash, the request
local token   = ARGV[1]

if redis.call('HGET', request, 'token') ~= token then return {'lost'} end
redis.call('DEL', request)
return {'released'}
