-- ledger_rebuild: recount the leases of a shard and correct `held` and `free`. Invalid entries are removed, because they
-- hold no slot and could never be ended.
-- Replies: rebuilt wrong strange (how many nodes were corrected, and entries removed)
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
  -- An unreadable limit is ignored: the instance that holds the node writes it again.
  local limit = read_slots(redis.call('HGET', limits, node) or '0')
  local right = limit and math.max(0, limit - (redis.call('ZSCORE', held, node) or 0))
  if right and right ~= tonumber(offered[i + 1]) then
    redis.call('ZADD', free, right, node)
    wrong = wrong + 1
  end
end
return {'rebuilt', wrong, strange}
