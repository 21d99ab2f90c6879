-- session_open: open a session, or restore its record after Redis has lost it.
-- Replies: opened | taken (the id is in use, or another owner has claimed it)
-- include: number
-- include: owning
local session    = KEYS[1]   -- hash, the session
local owner      = ARGV[1]   -- instance, incarnation and serial of its owner, which has its socket
local token      = ARGV[2]   -- digest of the token to resume with
local init       = ARGV[3]   -- what the client requested
local by_id      = ARGV[4]   -- 1: its client may claim it by its id
local generation = ARGV[5]   -- how often it was claimed, and once for its beginning
local cuts       = ARGV[6]   -- the latest utterances and the frames they were made of
local binding    = ARGV[7]   -- the node its open turn sticks to
local address    = ARGV[8]   -- digest of where its client comes from, if it is found by its id
local away       = ARGV[9]   -- 1: it has no socket
local belongs_to = ARGV[10]  -- digest of the principal that opened it; empty: it needed no credential
local paired     = ARGV[11]  -- tenant and id of the private node that it is paired with; empty: none
local keep_ms    = ARGV[12]

local whose = owned_by(session, owner, generation)
if whose == 'taken' then return {'taken'} end
if whose == 'gone' then
  redis.call('DEL', session)
  redis.call('HSET', session, 'owner', owner, 'token', token, 'init', init, 'by_id', by_id, 'generation', generation)
  if belongs_to ~= '' then redis.call('HSET', session, 'belongs_to', belongs_to) end
  if paired ~= '' then redis.call('HSET', session, 'paired', paired) end
end
if address ~= '' then redis.call('HSET', session, 'address', address, 'away', away) end
if cuts ~= '' then redis.call('HSET', session, 'cuts', cuts, 'binding', binding) end
redis.call('PEXPIRE', session, keep_ms)
return {'opened'}
