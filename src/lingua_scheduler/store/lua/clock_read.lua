-- clock_read: the current time of a shard's server.
-- Replies: a list of one, the time in milliseconds
-- include: clock
local seen   = KEYS[1]   -- any key of the shard: it names the server
local now_ms = ARGV[1]

redis.call('EXISTS', seen)
return {string.format('%.0f', clock(now_ms))}
