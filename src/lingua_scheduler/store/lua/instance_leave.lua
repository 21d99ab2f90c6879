-- instance_leave: an instance stops and counts as dead from now on. Its entry stays, so that others adopt its inbox.
-- Its figures are deleted, which distinguishes an instance that stopped from one that died.
-- Replies: left | superseded (another process has its id, or it is unknown)
-- include: clock
local alive       = KEYS[1]   -- zset instance -> last heartbeat
local about       = KEYS[2]   -- hash instance -> incarnation and JSON
local figures     = KEYS[3]   -- hash instance -> its figures
local instance    = ARGV[1]
local incarnation = ARGV[2]
local dead_ms     = ARGV[3]
local now_ms      = ARGV[4]

local holder = string.match(redis.call('HGET', about, instance) or '', '^%S+')
if holder ~= incarnation then return {'superseded'} end
local beat = tonumber(redis.call('ZSCORE', alive, instance) or 0)
redis.call('HDEL', figures, instance)
redis.call('ZADD', alive, math.min(beat, clock(now_ms) - dead_ms), instance)
return {'left'}
