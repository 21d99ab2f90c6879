-- session_close: it is over, unless another owner goes on with it.
-- Replies: closed | taken (another owner has claimed it) | gone (there is no record)
-- include: number
-- include: owning
local session    = KEYS[1]   -- hash, the session
local parked     = KEYS[2]   -- list of outcomes nobody may have heard
local owner      = ARGV[1]
local generation = ARGV[2]   -- of the caller's claim

local whose = owned_by(session, owner, generation)
if whose == 'taken' then return {'taken'} end
-- What a former owner wrote is over too.
redis.call('DEL', session, parked)
return {whose == 'mine' and 'closed' or 'gone'}
