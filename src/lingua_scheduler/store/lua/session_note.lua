-- session_note: store what another instance needs to continue the session.
-- The generation is a fencing token: it rises with every claim. A record with a lower one was written by a previous
-- owner after Redis had lost the record of this one.
-- Replies: noted | taken (another owner has claimed it) | gone (there is no record, or a previous owner's: open it again)
-- include: number
-- include: owning
local session    = KEYS[1]   -- hash, the session
local owner      = ARGV[1]
local generation = ARGV[2]   -- of the caller's claim
local cuts       = ARGV[3]   -- the latest utterances and the frames they were made of
local binding    = ARGV[4]   -- the node its open turn sticks to
local address    = ARGV[5]   -- digest of where its client comes from, if it is found by its id
local away       = ARGV[6]   -- 1: it has no socket
local keep_ms    = ARGV[7]

local whose = owned_by(session, owner, generation)
if whose ~= 'mine' then return {whose} end
redis.call('HSET', session, 'cuts', cuts, 'binding', binding)
if address ~= '' then redis.call('HSET', session, 'address', address, 'away', away) end
redis.call('PEXPIRE', session, keep_ms)
return {'noted'}
