-- placement_restore: a registered node lost its place; it gets the one it is registered in.
-- Shards are numbered without gaps, so lower ones that were forgotten are known again too, with room.
-- Replies: restored shard serial | kept shard serial (it has a place)
local placement  = KEYS[1]   -- hash node -> shard serial
local load       = KEYS[2]   -- zset shard -> nodes
local room       = KEYS[3]   -- zset shard -> shard, those with room
local node       = ARGV[1]
local shard      = ARGV[2]
local serial     = ARGV[3]
local shard_size = ARGV[4]   -- most nodes of a shard

local word = 'kept'
if redis.call('HSETNX', placement, node, shard .. ' ' .. serial) == 1 then
  word = 'restored'
  redis.call('ZINCRBY', load, 1, shard)
end
local place = redis.call('HGET', placement, node)
local kept, at = string.match(place, '^(%d+) (%d+)$')
kept, at = kept or shard, at or serial
for number = 0, tonumber(kept) do
  if redis.call('ZADD', load, 'NX', number == tonumber(kept) and 1 or 0, number) == 1 then
    redis.call('ZADD', room, number, number)
  end
end
if tonumber(redis.call('ZSCORE', load, kept)) >= tonumber(shard_size) then redis.call('ZREM', room, kept) end
return {word, tonumber(kept), tonumber(at)}
