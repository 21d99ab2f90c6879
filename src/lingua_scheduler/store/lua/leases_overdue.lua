-- leases_overdue: leases of a shard whose deadline has passed, oldest first.
-- Replies: a list of leases, at most `most`
-- include: clock
local leases = KEYS[1]   -- zset lease -> deadline
local most   = ARGV[1]
local now_ms = ARGV[2]

return redis.call('ZRANGEBYSCORE', leases, '-inf', clock(now_ms), 'LIMIT', 0, most)
