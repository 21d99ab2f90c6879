-- session_close: it is over, unless another owner goes on with it.
-- Replies: closed | taken (it is another owner's, or gone already)
local session = KEYS[1]   -- hash, the session
local parked  = KEYS[2]   -- list of outcomes nobody may have heard
local owner   = ARGV[1]

if redis.call('HGET', session, 'owner') ~= owner then return {'taken'} end
redis.call('DEL', session, parked)
return {'closed'}
