-- placement_audit: recount the nodes assigned to each shard; with `repair` correct `load`.
-- With `shard_size`, `room` is corrected too; otherwise the next node that joins or leaves the shard corrects it.
-- A shard that is missing from `load` is added if nodes are registered there: a place alone may be wrong.
-- Replies: a list of kind, shard, detail, kind, shard, detail …
-- include: words
-- include: place
local placement  = KEYS[1]   -- hash node -> shard serial
local load       = KEYS[2]   -- zset shard -> nodes
local room       = KEYS[3]   -- zset shard -> shard, those with room
local most       = ARGV[1]   -- shards there may be
local repair     = ARGV[2]   -- 1: repair
local shard_size = ARGV[3]   -- maximum nodes of a shard; empty: unknown
local registered = ARGV[4]   -- shards in which the caller found registered nodes

local found, counted, believed = {}, {}, {}
for _, text in ipairs(redis.call('HVALS', placement)) do
  local shard = read_place(text, most)
  if shard then counted[tonumber(shard)] = (counted[tonumber(shard)] or 0) + 1 end
end
for _, shard in ipairs(words(registered)) do believed[shard] = 'none' end
local loads = redis.call('ZRANGE', load, 0, -1, 'WITHSCORES')
for i = 1, #loads, 2 do believed[loads[i]] = loads[i + 1] end
for shard = 0, most - 1 do
  local nodes, said = counted[shard] or 0, believed[tostring(shard)]
  if said and tonumber(said) ~= nodes then
    found[#found + 1], found[#found + 2], found[#found + 3] =
      'load_wrong', tostring(shard), (tonumber(said) or 0) .. ' ' .. nodes
    if repair == '1' then redis.call('ZADD', load, nodes, shard) end
  end
  if said and repair == '1' and shard_size ~= '' then
    if nodes < tonumber(shard_size) then redis.call('ZADD', room, shard, shard) else redis.call('ZREM', room, shard) end
  end
end
return found
