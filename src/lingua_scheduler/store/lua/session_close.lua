-- session_close: it is over, unless another owner goes on with it.
-- A former owner that has not noticed that it was claimed would take the record for lost and write it again. So of a
-- session that was claimed a tombstone stays for a while: a record that is nobody's and that nobody can claim.
-- Replies: closed | taken (another owner has claimed it, or it was closed before) | gone (there is no record)
-- include: number
-- include: owning
local session    = KEYS[1]   -- hash, the session
local parked     = KEYS[2]   -- list of outcomes nobody may have heard
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
