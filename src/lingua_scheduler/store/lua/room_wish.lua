-- room_wish: a member says whether it wants the voice of another one.
-- Replies: noted state… | unknown (no such room, or one of them is not in it)
-- include: number
-- include: rooms
local facts     = KEYS[1]   -- hash, the room
local members   = KEYS[2]   -- hash session -> what it says of itself, as JSON
local joined    = KEYS[3]   -- zset session -> when it joined (microseconds)
local holders   = KEYS[4]   -- hash session -> instance, incarnation and serial that hold it
local wishes    = KEYS[5]   -- hash session -> whose voice it wants (session=1) and whose not (session=0)
local guests    = KEYS[6]   -- hash instance and incarnation -> how many guests it has, in all and of each language
local session   = ARGV[1]
local speaker   = ARGV[2]
local wish      = ARGV[3]   -- 1: it wants it, 0: it does not

local keys = {facts, members, joined, holders, wishes, guests}
if not is_open(keys) then return {'unknown'} end
for _, one in ipairs({session, speaker}) do
  if redis.call('HEXISTS', members, one) == 0 then return {'unknown'} end
end
local kept = {speaker .. '=' .. wish}
-- Of those who left nothing is kept, so there are never more wishes than members.
for other, value in string.gmatch(redis.call('HGET', wishes, session) or '', '(%S+)=([01])') do
  if other ~= speaker and redis.call('HEXISTS', members, other) == 1 then kept[#kept + 1] = other .. '=' .. value end
end
redis.call('HSET', wishes, session, table.concat(kept, ' '))
redis.call('PEXPIRE', wishes, redis.call('PTTL', facts))
change(facts)
return state('noted', keys)
