-- room_create: open a room with its first member, if the code is free.
-- Replies: created state… | taken (the code is in use, or was a moment ago)
-- include: clock
-- include: number
-- include: rooms
local facts     = KEYS[1]   -- hash, the room
local members   = KEYS[2]   -- hash session -> what it says of itself, as JSON
local joined    = KEYS[3]   -- zset session -> when it joined (microseconds)
local holders   = KEYS[4]   -- hash session -> instance, incarnation and serial that hold it
local wishes    = KEYS[5]   -- hash session -> whose voice it wants (session=1) and whose not (session=0)
local guests    = KEYS[6]   -- hash instance and incarnation -> how many guests it has, in all and of each language
local id        = ARGV[1]   -- of the room, never used again
local record    = ARGV[2]   -- of what is written here: another one after Redis has lost it
local session   = ARGV[3]
local holder    = ARGV[4]
local about     = ARGV[5]
local keep_ms   = ARGV[6]
local now_ms    = ARGV[7]

local keys = {facts, members, joined, holders, wishes, guests}
local now = clock(now_ms)
local known = redis.call('HGET', facts, 'id')
if known and (known ~= id or not is_open(keys)) then return {'taken'} end
if not known then
  -- Members of a room whose facts Redis has lost are not in this one.
  redis.call('DEL', unpack(keys, 2))
  redis.call('HSET', facts, 'id', id, 'record', record, 'version', 1, 'active_ms', string.format('%.0f', now))
  add(keys, session, holder, about, now)
  keep(keys, keep_ms)
end
return state('created', keys)
