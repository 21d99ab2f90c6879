-- room_update: a member changes what it says of itself.
-- Replies: noted state… | moved (another owner has its session by now) | unknown (no such room or member)
-- include: number
-- include: rooms
local facts     = KEYS[1]   -- hash, the room
local members   = KEYS[2]   -- hash session -> what it says of itself, as JSON
local joined    = KEYS[3]   -- zset session -> when it joined (microseconds)
local holders   = KEYS[4]   -- hash session -> instance, incarnation and serial that hold it
local wishes    = KEYS[5]   -- hash session -> whose voice it wants (session=1) and whose not (session=0)
local guests    = KEYS[6]   -- hash instance and incarnation -> how many guests it has, in all and of each language
local session   = ARGV[1]
local holder    = ARGV[2]   -- its owner as the caller knows it
local about     = ARGV[3]

local keys = {facts, members, joined, holders, wishes, guests}
if not is_open(keys) or redis.call('HEXISTS', members, session) == 0 then return {'unknown'} end
if redis.call('HGET', holders, session) ~= holder then return {'moved'} end
if redis.call('HGET', members, session) ~= about then
  redis.call('HSET', members, session, about)
  change(facts)
end
return state('noted', keys)
