-- placement_restore: a registered node has lost its place; give it the shard it is registered in.
-- If its shard is unknown it is added, with room; other shards are restored by their own nodes.
-- A place that is unreadable or beyond the last shard counts as missing.
-- Replies: restored shard serial | kept shard serial (it has a place)
-- include: place
local placement  = KEYS[1]   -- hash node -> shard serial
local load       = KEYS[2]   -- zset shard -> nodes
local room       = KEYS[3]   -- zset shard -> shard, those with room
local node       = ARGV[1]
local shard      = ARGV[2]
local serial     = ARGV[3]
local shard_size = ARGV[4]   -- most nodes of a shard
local max_shards = ARGV[5]   -- shards there may be

local word = 'kept'
local kept, at = read_place(redis.call('HGET', placement, node), max_shards)
if not kept then
  word, kept, at = 'restored', shard, serial
  redis.call('HSET', placement, node, kept .. ' ' .. at)
end
if not redis.call('ZSCORE', load, kept) then
  redis.call('ZADD', load, 1, kept)
  redis.call('ZADD', room, kept, kept)
elseif word == 'restored' then
  redis.call('ZINCRBY', load, 1, kept)
end
if tonumber(redis.call('ZSCORE', load, kept)) >= tonumber(shard_size) then redis.call('ZREM', room, kept) end
return {word, tonumber(kept), tonumber(at)}
