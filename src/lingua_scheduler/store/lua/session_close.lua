-- session_close: close a session, unless another owner has claimed it.
-- A previous owner that has not noticed the claim would consider the record lost and write it again. So a claimed
-- session leaves a tombstone for a while: a record without an owner that cannot be claimed.
-- Replies: closed | taken (another owner has claimed it, or it is already closed) | gone (there is no record)
-- include: number
-- include: owning
local session    = KEYS[1]   -- hash, the session
local parked     = KEYS[2]   -- list of outcomes that may not have reached the client
local owner      = ARGV[1]
local generation = ARGV[2]   -- of the caller's claim
local keep_ms    = ARGV[3]   -- of the tombstone: within this time every former owner notes something

local whose = owned_by(session, owner, generation)
if whose == 'taken' then return {'taken'} end
-- What a former owner wrote is over too.
redis.call('DEL', session, parked)
if tonumber(generation) > 1 then
  redis.call('HSET', session, 'owner', 'closed', 'token', '', 'init', '', 'generation', generation)
  redis.call('PEXPIRE', session, keep_ms)
end
return {whose == 'mine' and 'closed' or 'gone'}
