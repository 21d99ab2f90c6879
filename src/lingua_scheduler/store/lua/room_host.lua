-- room_host: the host removes a member, locks the room or closes it.
-- Replies: left state… | noted state… (locked or unlocked) | ended | denied (not by the host) | unknown
-- include: number
-- include: rooms
local facts     = KEYS[1]   -- hash, the room
local members   = KEYS[2]   -- hash session -> what it says of itself, as JSON
local joined    = KEYS[3]   -- zset session -> when it joined (microseconds)
local holders   = KEYS[4]   -- hash session -> instance, incarnation and serial that hold it
local wishes    = KEYS[5]   -- hash session -> whose voice it wants (session=1) and whose not (session=0)
local guests    = KEYS[6]   -- hash instance and incarnation -> how many guests it has, in all and of each language
local said      = KEYS[7]   -- zset "session utterance" -> its number
local host      = ARGV[1]   -- the session that wants it; empty: an operator
local verb      = ARGV[2]   -- remove, lock, unlock or close
local session   = ARGV[3]   -- of the member to remove
local ended_ms  = ARGV[4]   -- how long the code stays in use after the end

local keys = {facts, members, joined, holders, wishes, guests, said}
if not is_open(keys) then return {'unknown'} end
if host ~= '' and not is_host(keys, host) then return {'denied'} end
if verb == 'remove' then
  if session == host or redis.call('HEXISTS', members, session) == 0 then return {'unknown'} end
  drop(keys, session)
  return state('left', keys)
end
if verb == 'close' then
  finish(keys, host == '' and 'operator' or 'closed', ended_ms)
  return {'ended'}
end
redis.call('HSET', facts, 'locked', verb == 'lock' and '1' or '0')
change(facts)
return state('noted', keys)
