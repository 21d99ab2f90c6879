-- room_join: become a member of a room.
-- Replies: joined state… | already state… (it is a member) | full | locked | unknown (no such room, or it has expired)
-- include: clock
-- include: number
-- include: rooms
local facts     = KEYS[1]   -- hash, the room
local members   = KEYS[2]   -- hash session -> what it says of itself, as JSON
local joined    = KEYS[3]   -- zset session -> when it joined (microseconds)
local holders   = KEYS[4]   -- hash session -> instance, incarnation and serial that hold it
local wishes    = KEYS[5]   -- hash session -> whose voice it wants (session=1) and whose not (session=0)
local guests    = KEYS[6]   -- hash instance and incarnation -> how many guests it has, in all and of each language
local session   = ARGV[1]
local holder    = ARGV[2]
local about     = ARGV[3]
local most      = ARGV[4]   -- maximum number of members
local expire_ms = ARGV[5]   -- of a room in which no member joined or spoke
local keep_ms   = ARGV[6]
local now_ms    = ARGV[7]

local keys = {facts, members, joined, holders, wishes, guests}
local now = clock(now_ms)
if not is_open(keys) or is_quiet(facts, now, expire_ms) then return {'unknown'} end
if redis.call('HEXISTS', members, session) == 1 then return state('already', keys) end
if redis.call('HLEN', members) >= tonumber(most) then return {'full'} end
if redis.call('HGET', facts, 'locked') == '1' then return {'locked'} end
add(keys, session, holder, about, now)
redis.call('HSET', facts, 'active_ms', string.format('%.0f', now))
change(facts)
keep(keys, keep_ms)
return state('joined', keys)
