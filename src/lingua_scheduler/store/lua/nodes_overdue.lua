-- nodes_overdue: nodes of a shard whose last sign of life is too old.
-- Replies: a list of node ids, at most `most`
-- include: clock
local seen   = KEYS[1]   -- zset node -> alive until
local most   = ARGV[1]
local now_ms = ARGV[2]

return redis.call('ZRANGEBYSCORE', seen, '-inf', clock(now_ms), 'LIMIT', 0, most)
