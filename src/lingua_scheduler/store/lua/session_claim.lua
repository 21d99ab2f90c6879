-- session_claim: the client connected to another instance with its token; that instance now owns the session.
-- A session that was opened to be found by its id is claimed without a token, from the address it was opened from, while
-- it has no socket. A record without an address was written by an older release.
-- Either way it must be the principal that opened it; a record that names none was opened without a credential.
-- Replies: claimed init generation cuts binding paired outcome… | held owner (claimed by its id, but its socket is open
--          according to its owner) | unknown (no such session, or not this client's)
-- include: number
local session    = KEYS[1]   -- hash, the session
local parked     = KEYS[2]   -- list of outcomes that may not have reached the client
local owner      = ARGV[1]   -- instance, incarnation and serial of the new owner
local token      = ARGV[2]   -- digest of the token; empty: by its id
local address    = ARGV[3]   -- digest of where the client comes from
local belongs_to = ARGV[4]   -- digest of the client's principal; empty: it needed no credential
local dead       = ARGV[5]   -- an owner that is known to be dead, and its socket with it
local most       = ARGV[6]   -- maximum number of outcomes returned, the latest
local keep_ms    = ARGV[7]

local known = redis.call('HMGET', session, 'token', 'owner', 'init', 'generation', 'cuts', 'binding', 'by_id',
  'address', 'away', 'belongs_to', 'paired')
if not known[1] or not known[3] or (known[10] or '') ~= belongs_to then return {'unknown'} end
if token == '' then
  if known[7] ~= '1' or (known[8] and known[8] ~= address) then return {'unknown'} end
  if known[9] == '0' and known[2] and known[2] ~= dead then return {'held', known[2]} end
elseif known[1] ~= token then
  return {'unknown'}
end
-- One that cannot be read begins anew.
local generation = read_number(known[4]) or 1
if known[2] ~= owner then generation = generation + 1 end
generation = string.format('%.0f', generation)
redis.call('HSET', session, 'owner', owner, 'generation', generation)
if known[7] == '1' then redis.call('HSET', session, 'address', address, 'away', '0') end
redis.call('PEXPIRE', session, keep_ms)
local reply = {'claimed', known[3], generation, known[5] or '', known[6] or '', known[11] or ''}
for _, outcome in ipairs(redis.call('LRANGE', parked, -most, -1)) do reply[#reply + 1] = outcome end
return reply
