-- session_open: a session begins here.
-- Replies: opened | taken (there is a session of this name)
local session = KEYS[1]   -- hash, the session
local owner   = ARGV[1]   -- instance and serial of whoever holds its socket
local token   = ARGV[2]   -- digest of the token to resume with
local init    = ARGV[3]   -- what the client asked for
local keep_ms = ARGV[4]

if redis.call('EXISTS', session) == 1 then
  return {redis.call('HGET', session, 'owner') == owner and 'opened' or 'taken'}
end
redis.call('HSET', session, 'owner', owner, 'token', token, 'init', init, 'generation', 1)
redis.call('PEXPIRE', session, keep_ms)
return {'opened'}
