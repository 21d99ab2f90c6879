-- session_claim: the client came to another instance with its token; from here on that one owns the session.
-- Replies: claimed init generation cuts binding outcome… | unknown (no such session, or not its token)
local session = KEYS[1]   -- hash, the session
local parked  = KEYS[2]   -- list of outcomes nobody may have heard
local owner   = ARGV[1]   -- instance and serial of whoever claims it
local token   = ARGV[2]   -- digest of the token
local keep_ms = ARGV[3]

local known = redis.call('HMGET', session, 'token', 'owner', 'init', 'generation', 'cuts', 'binding')
if not known[1] or known[1] ~= token then return {'unknown'} end
local generation = known[4]
if known[2] ~= owner then generation = redis.call('HINCRBY', session, 'generation', 1) end
redis.call('HSET', session, 'owner', owner)
redis.call('PEXPIRE', session, keep_ms)
return {'claimed', known[3], tostring(generation), known[5] or '', known[6] or '',
  unpack(redis.call('LRANGE', parked, 0, -1))}
