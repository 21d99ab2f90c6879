-- session_park: outcomes for a client that is away, or that a breaking socket may have swallowed.
-- Replies: parked | taken (the session is another owner's by now, or gone)
local session  = KEYS[1]             -- hash, the session
local parked   = KEYS[2]             -- list of outcomes nobody may have heard
local owner    = ARGV[1]
local most     = ARGV[2]             -- so many are kept, the latest
local keep_ms  = ARGV[3]
local outcomes = {unpack(ARGV, 4)}

if redis.call('HGET', session, 'owner') ~= owner then return {'taken'} end
for _, outcome in ipairs(outcomes) do
  -- Said twice it is parked once.
  redis.call('LREM', parked, 0, outcome)
  redis.call('RPUSH', parked, outcome)
end
redis.call('LTRIM', parked, -most, -1)
redis.call('PEXPIRE', parked, keep_ms)
return {'parked'}
