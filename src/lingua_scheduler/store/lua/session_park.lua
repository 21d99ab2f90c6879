-- session_park: store outcomes for a disconnected client, or that may have been lost with a breaking socket.
-- Replies: parked | taken (another owner has claimed it) | gone (there is no record: open it again, then park)
-- include: number
-- include: owning
local session    = KEYS[1]   -- hash, the session
local parked     = KEYS[2]   -- list of outcomes that may not have reached the client
local owner      = ARGV[1]
local generation = ARGV[2]   -- of the caller's claim
local most       = ARGV[3]   -- maximum number kept, the latest
local keep_ms    = ARGV[4]
local outcomes   = {unpack(ARGV, 5)}

local whose = owned_by(session, owner, generation)
if whose ~= 'mine' then return {whose} end
for _, outcome in ipairs(outcomes) do
  -- Said twice it is parked once.
  redis.call('LREM', parked, 0, outcome)
  redis.call('RPUSH', parked, outcome)
end
redis.call('LTRIM', parked, -most, -1)
redis.call('PEXPIRE', parked, keep_ms)
return {'parked'}
