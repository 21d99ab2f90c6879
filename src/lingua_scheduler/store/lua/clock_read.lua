-- clock_read: what time it is on the server of a shard.
-- Replies: a list of one, the moment in milliseconds
-- include: clock
local seen   = KEYS[1]   -- any key of the shard: it names the server
local now_ms = ARGV[1]

redis.call('EXISTS', seen)
return {string.format('%.0f', clock(now_ms))}
