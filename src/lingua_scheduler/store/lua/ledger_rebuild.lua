-- ledger_rebuild: count the leases of a shard anew and put right what `held` and `free` say. What is no lease of ours
-- is removed, because it holds no slot and nobody could ever end it.
-- Replies: rebuilt wrong strange (how many nodes were off, and entries removed)
-- include: lease
-- include: number
local free   = KEYS[1]   -- zset node -> free slots
local held   = KEYS[2]   -- zset node -> live leases
local limits = KEYS[3]   -- hash node -> slots
local leases = KEYS[4]   -- zset lease -> deadline

local counted, wrong, strange = {}, 0, 0
for _, lease in ipairs(redis.call('ZRANGE', leases, 0, -1)) do
  local _, _, node = read_lease(lease)
  if node then
    counted[node] = (counted[node] or 0) + 1
  else
    strange = strange + redis.call('ZREM', leases, lease)
  end
end
local believed = redis.call('ZRANGE', held, 0, -1, 'WITHSCORES')
for i = 1, #believed, 2 do
  if not counted[believed[i]] then
    redis.call('ZREM', held, believed[i])
    wrong = wrong + 1
  elseif counted[believed[i]] == tonumber(believed[i + 1]) then
    counted[believed[i]] = nil
  end
end
for node, count in pairs(counted) do
  redis.call('ZADD', held, count, node)
  wrong = wrong + 1
end
local offered = redis.call('ZRANGE', free, 0, -1, 'WITHSCORES')
for i = 1, #offered, 2 do
  local node = offered[i]
  -- A limit that cannot be read says nothing: whoever has the node writes it again.
  local limit = read_slots(redis.call('HGET', limits, node) or '0')
  local right = limit and math.max(0, limit - (redis.call('ZSCORE', held, node) or 0))
  if right and right ~= tonumber(offered[i + 1]) then
    redis.call('ZADD', free, right, node)
    wrong = wrong + 1
  end
end
return {'rebuilt', wrong, strange}
