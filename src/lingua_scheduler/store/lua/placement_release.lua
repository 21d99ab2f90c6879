-- placement_release: a node is gone; free its place in the shard.
-- Replies: released | gone (it has no place, or has reconnected; idempotent)
local placement = KEYS[1]   -- hash node -> shard serial
local load      = KEYS[2]   -- zset shard -> nodes
local room      = KEYS[3]   -- zset shard -> shard, those with room
local node      = ARGV[1]
local shard     = ARGV[2]
local serial    = ARGV[3]

if redis.call('HGET', placement, node) ~= shard .. ' ' .. serial then return {'gone'} end
redis.call('HDEL', placement, node)
-- A place in an unknown shard was invalid, or the shard was deleted: a node that leaves does not create the shard.
if redis.call('ZADD', load, 'XX', 'INCR', -1, shard) then redis.call('ZADD', room, shard, shard) end
return {'released'}
