-- room_look: the room as it is.
-- Replies: open state… | ended why | unknown (there is none, or Redis has lost it)
-- include: number
-- include: rooms
local facts     = KEYS[1]   -- hash, the room
local members   = KEYS[2]   -- hash session -> what it says of itself, as JSON
local joined    = KEYS[3]   -- zset session -> when it joined (microseconds)
local holders   = KEYS[4]   -- hash session -> instance, incarnation and serial that hold it
local wishes    = KEYS[5]   -- hash session -> whose voice it wants (session=1) and whose not (session=0)
local guests    = KEYS[6]   -- hash instance and incarnation -> how many guests it has, in all and of each language

local keys = {facts, members, joined, holders, wishes, guests}
if is_open(keys) then return state('open', keys) end
local why = redis.call('HGET', facts, 'ended')
return why and {'ended', why} or {'unknown'}
