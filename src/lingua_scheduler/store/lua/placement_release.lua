-- placement_release: a node is gone, its place may be used again.
-- Replies: released | gone (it has no place, or another one by now; safe to repeat)
local placement = KEYS[1]   -- hash node -> shard
local load      = KEYS[2]   -- zset shard -> nodes
local room      = KEYS[3]   -- zset shard -> shard, those with room
local node      = ARGV[1]
local shard     = ARGV[2]

if redis.call('HGET', placement, node) ~= shard then return {'gone'} end
redis.call('HDEL', placement, node)
redis.call('ZINCRBY', load, -1, shard)
redis.call('ZADD', room, shard, shard)
return {'released'}
