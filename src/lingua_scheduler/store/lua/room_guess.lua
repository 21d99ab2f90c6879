-- room_guess: take one try at the code of a room. It is given back (room_guess_return) if the code was right.
-- Replies: taken wrong | spent wrong (of this address) | guarded wrong (of all addresses, and this one had its try)
-- It is taken before the code is looked at, so that no number of sockets that try at once gets more.
-- include: number
local tries     = KEYS[1]   -- hash address -> wrong codes in this minute; all -> those of all addresses
local address   = ARGV[1]
local most_each = ARGV[2]   -- wrong codes of one address
local most_all  = ARGV[3]   -- of all of them, after which each address has one try
local most      = ARGV[4]   -- of all of them, after which none has
local window_ms = ARGV[5]

local own = read_number(redis.call('HGET', tries, address)) or 0
local all = read_number(redis.call('HGET', tries, 'all')) or 0
if own >= tonumber(most_each) then return {'spent', all} end
if all >= tonumber(most) or (own > 0 and all >= tonumber(most_all)) then return {'guarded', all} end
redis.call('HSET', tries, address, own + 1, 'all', all + 1)
if redis.call('PTTL', tries) < 0 then redis.call('PEXPIRE', tries, window_ms) end
return {'taken', all + 1}
