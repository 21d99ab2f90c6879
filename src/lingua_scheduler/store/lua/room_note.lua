-- room_note: an instance names the rooms that it has members of, so that they can be listed. Entries that no instance
-- renews are removed.
-- Replies: noted
-- include: clock
local listed    = KEYS[1]   -- zset room -> until when it is listed (ms)
local opened    = KEYS[2]   -- zset room -> when it was opened (ms)
local named     = KEYS[3]   -- hash room -> tenant and code
local keep_ms   = ARGV[1]
local most_gone = ARGV[2]   -- how many that are over are removed at once
local now_ms    = ARGV[3]
local rooms     = {unpack(ARGV, 4)}   -- of each: id, when it was opened, tenant and code

local now = clock(now_ms)
for at = 1, #rooms, 3 do
  redis.call('ZADD', listed, string.format('%.0f', now + keep_ms), rooms[at])
  redis.call('ZADD', opened, 'NX', rooms[at + 1], rooms[at])
  redis.call('HSET', named, rooms[at], rooms[at + 2])
end
for _, room in ipairs(redis.call('ZRANGEBYSCORE', listed, '-inf', string.format('%.0f', now), 'LIMIT', 0, most_gone)) do
  redis.call('ZREM', listed, room)
  redis.call('ZREM', opened, room)
  redis.call('HDEL', named, room)
end
for _, key in ipairs({listed, opened, named}) do redis.call('PEXPIRE', key, keep_ms) end
return {'noted'}
