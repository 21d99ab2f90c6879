-- room_hold: an instance says that it has members of a room. The room is kept, or ends if it was quiet for too long.
-- A room that Redis has lost, or a part of it, is written again under another record: whole by the first instance that
-- has members of it, and by the others those of their own that are missing. Where the record is the one that the caller
-- knows, a member that is missing was removed.
-- Replies: same (nothing has changed since the caller's version) | open state… | restored state… | expired state… |
--          lost (call again, with members) | ended why (it has, or the code is another room's)
-- include: clock
-- include: number
-- include: rooms
local facts     = KEYS[1]   -- hash, the room
local members   = KEYS[2]   -- hash session -> what it says of itself, as JSON
local joined    = KEYS[3]   -- zset session -> when it joined (microseconds)
local holders   = KEYS[4]   -- hash session -> instance, incarnation and serial that hold it
local wishes    = KEYS[5]   -- hash session -> whose voice it wants (session=1) and whose not (session=0)
local guests    = KEYS[6]   -- hash instance and incarnation -> how many guests it has, in all and of each language
local said      = KEYS[7]   -- zset "session utterance" -> its number
local id        = ARGV[1]
local record    = ARGV[2]   -- as the caller knows it
local version   = ARGV[3]   -- likewise
local fresh     = ARGV[4]   -- the record if it has to be written again
local spoke     = ARGV[5]   -- 1: one of its members spoke since the last time
local active_ms = ARGV[6]   -- when one did, as the caller knows it
local locked    = ARGV[7]
local expire_ms = ARGV[8]
local keep_ms   = ARGV[9]
local ended_ms  = ARGV[10]  -- how long the code stays in use after the end
local wishing   = ARGV[11]  -- how many members have wishes, as the caller knows it
local hosting   = ARGV[12]  -- how many instances have guests, likewise
local own       = ARGV[13]  -- how many of the members are the caller's own; they come first
local now_ms    = ARGV[14]
local known_to  = {unpack(ARGV, 15)}   -- of each member: session, when it joined, what it says, holder, wishes

local keys = {facts, members, joined, holders, wishes, guests, said}
local now = clock(now_ms)
local known = redis.call('HMGET', facts, 'id', 'ended', 'record', 'version', 'active_ms')
if known[2] or (known[1] and known[1] ~= id) then return {'ended', known[2] or 'lost'} end
-- Where the caller knows the version, it knows all of the room.
local lacks = known[4] == version
  and (redis.call('HLEN', wishes) ~= tonumber(wishing) or redis.call('HLEN', guests) ~= tonumber(hosting))
local whole = is_whole(keys) and not lacks
if (known[3] ~= record or not whole) and #known_to == 0 then return {'lost'} end
local most = (known[1] and whole) and 5 * own or #known_to
local word = known[4] == version and 'same' or 'open'
if not known[1] then
  redis.call('HSET', facts, 'id', id, 'version', version, 'active_ms', active_ms, 'locked', locked)
  known[5] = active_ms
end
if not whole then redis.call('DEL', members, joined, holders) end
if not known[1] or not whole then
  redis.call('HSET', facts, 'record', fresh)
  known[3] = fresh
end
if known[3] ~= record then
  for at = 1, most, 5 do
    local session = known_to[at]
    if redis.call('HEXISTS', members, session) == 0 then
      redis.call('ZADD', joined, known_to[at + 1], session)
      redis.call('HSET', members, session, known_to[at + 2])
      redis.call('HSET', holders, session, known_to[at + 3])
      if known_to[at + 4] ~= '' then redis.call('HSET', wishes, session, known_to[at + 4]) end
    end
  end
  change(facts)
  word = 'restored'
end
if spoke == '1' then
  redis.call('HSET', facts, 'active_ms', string.format('%.0f', now))
elseif now - (read_number(known[5]) or 0) >= tonumber(expire_ms) then
  local reply = state('expired', keys)
  finish(keys, 'expired', ended_ms)
  return reply
end
keep(keys, keep_ms)
return word == 'same' and {'same'} or state(word, keys)
