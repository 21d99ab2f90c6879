-- room_guests: note how many guests an instance has in a room.
-- Replies: noted state… | full | locked | unknown (no such room, or it has expired)
-- include: clock
-- include: number
-- include: rooms
local facts     = KEYS[1]   -- hash, the room
local members   = KEYS[2]   -- hash session -> what it says of itself, as JSON
local joined    = KEYS[3]   -- zset session -> when it joined (microseconds)
local holders   = KEYS[4]   -- hash session -> instance, incarnation and serial that hold it
local wishes    = KEYS[5]   -- hash session -> whose voice it wants (session=1) and whose not (session=0)
local guests    = KEYS[6]   -- hash instance and incarnation -> how many guests it has, in all and of each language
local id        = ARGV[1]   -- of the room; empty: the one that has the code now
local holder    = ARGV[2]   -- the instance and its incarnation
local counts    = ARGV[3]   -- how many it has, in all and of each language; empty: none
local most      = ARGV[4]   -- maximum number of guests if one is about to come in; empty if none is
local expire_ms = ARGV[5]   -- of a room in which no member joined or spoke
local now_ms    = ARGV[6]

local keys = {facts, members, joined, holders, wishes, guests}
if not is_open(keys) or (id ~= '' and redis.call('HGET', facts, 'id') ~= id) then return {'unknown'} end
if most ~= '' then
  if is_quiet(facts, clock(now_ms), expire_ms) then return {'unknown'} end
  local total = read_number(string.match(counts, '^%d+')) or 0
  local known = redis.call('HGETALL', guests)
  for at = 1, #known, 2 do
    if known[at] ~= holder then total = total + (read_number(string.match(known[at + 1], '^%d+')) or 0) end
  end
  if total > tonumber(most) then return {'full'} end
  if redis.call('HGET', facts, 'locked') == '1' then return {'locked'} end
end
if (redis.call('HGET', guests, holder) or '') ~= counts then
  if counts == '' then redis.call('HDEL', guests, holder) else redis.call('HSET', guests, holder, counts) end
  redis.call('PEXPIRE', guests, redis.call('PTTL', facts))
  change(facts)
end
return state('noted', keys)
