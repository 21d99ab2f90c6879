-- session_note: what another instance would need to know to go on with the session.
-- Replies: noted | taken (it is another owner's by now, or gone)
local session = KEYS[1]   -- hash, the session
local owner   = ARGV[1]
local cuts    = ARGV[2]   -- the latest utterances and the frames they were made of
local binding = ARGV[3]   -- the node its open turn sticks to
local keep_ms = ARGV[4]

if redis.call('HGET', session, 'owner') ~= owner then return {'taken'} end
redis.call('HSET', session, 'cuts', cuts, 'binding', binding)
redis.call('PEXPIRE', session, keep_ms)
return {'noted'}
