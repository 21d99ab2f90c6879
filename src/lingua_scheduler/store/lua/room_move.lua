-- room_move: the client of a member connected to another instance, which holds its session now.
-- Replies: moved state… | unknown (no such room, or it is not in it any more)
-- include: number
-- include: rooms
local facts     = KEYS[1]   -- hash, the room
local members   = KEYS[2]   -- hash session -> what it says of itself, as JSON
local joined    = KEYS[3]   -- zset session -> when it joined (microseconds)
local holders   = KEYS[4]   -- hash session -> instance, incarnation and serial that hold it
local wishes    = KEYS[5]   -- hash session -> whose voice it wants (session=1) and whose not (session=0)
local guests    = KEYS[6]   -- hash instance and incarnation -> how many guests it has, in all and of each language
local id        = ARGV[1]   -- of the room that it was in
local session   = ARGV[2]
local holder    = ARGV[3]

local keys = {facts, members, joined, holders, wishes, guests}
if not is_open(keys) or redis.call('HGET', facts, 'id') ~= id then return {'unknown'} end
if redis.call('HEXISTS', members, session) == 0 then return {'unknown'} end
if redis.call('HGET', holders, session) ~= holder then
  redis.call('HSET', holders, session, holder)
  change(facts)
end
return state('moved', keys)
