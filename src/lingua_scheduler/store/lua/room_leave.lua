-- room_leave: a member leaves. With the last one the room ends.
-- Replies: left state… | ended | moved (another owner has its session by now) | unknown (no such room or member)
-- include: number
-- include: rooms
local facts     = KEYS[1]   -- hash, the room
local members   = KEYS[2]   -- hash session -> what it says of itself, as JSON
local joined    = KEYS[3]   -- zset session -> when it joined (microseconds)
local holders   = KEYS[4]   -- hash session -> instance, incarnation and serial that hold it
local wishes    = KEYS[5]   -- hash session -> whose voice it wants (session=1) and whose not (session=0)
local guests    = KEYS[6]   -- hash instance and incarnation -> how many guests it has, in all and of each language
local said      = KEYS[7]   -- zset "session utterance" -> its number
local session   = ARGV[1]
local holder    = ARGV[2]   -- its owner as the caller knows it
local ended_ms  = ARGV[3]   -- how long the code stays in use after the end

local keys = {facts, members, joined, holders, wishes, guests, said}
if not is_open(keys) or redis.call('HEXISTS', members, session) == 0 then return {'unknown'} end
if redis.call('HGET', holders, session) ~= holder then return {'moved'} end
drop(keys, session)
if redis.call('HLEN', members) > 0 then return state('left', keys) end
finish(keys, 'left', ended_ms)
return {'ended'}
