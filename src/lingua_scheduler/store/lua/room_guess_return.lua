-- room_guess_return: give a try at the code of a room back, because the code was right.
-- Replies: returned wrong | gone (the minute in which it was taken is over)
-- include: number
local tries   = KEYS[1]   -- hash address -> wrong codes in this minute; all -> those of all addresses
local address = ARGV[1]

local own = read_number(redis.call('HGET', tries, address)) or 0
local all = read_number(redis.call('HGET', tries, 'all')) or 0
if own < 1 or all < 1 then return {'gone'} end
redis.call('HSET', tries, address, own - 1, 'all', all - 1)
return {'returned', all - 1}
