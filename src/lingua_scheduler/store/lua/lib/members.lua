-- The members of a pool: those of all `pools.sets`, the pool's own set and then wide pools. `pools.in_wide` learns which
-- nodes come from a wide pool: these need not be in the sets of `pools.also`.
local function some_members(pools, most)
  if #pools.sets > 1 then return draw(pools.sets, most, pools.in_wide) end
  return redis.call('SRANDMEMBER', pools.sets[1], most)
end

-- As many as the largest shard has: beyond that there are foreign entries among them, which are not nodes, and members
-- are looked for among the nodes that were seen. Lua hands a command 8000 words at most, and some take five for a node.
local MOST_MEMBERS = 1000
local function seen_members(pools, seen)
  local names, found = redis.call('ZRANGE', seen, 0, MOST_MEMBERS - 1, 'REV'), {}
  if #names == 0 then return found end
  for i, set in ipairs(pools.sets) do
    local inside = redis.call('SMISMEMBER', set, unpack(names))
    for place, name in ipairs(names) do
      if inside[place] == 1 then
        found[#found + 1] = name
        if i > 1 then pools.in_wide[name] = true end
      end
    end
  end
  return found
end

local function all_members(pools, seen)
  local count = 0
  for _, set in ipairs(pools.sets) do count = count + redis.call('SCARD', set) end
  if count > MOST_MEMBERS then return seen_members(pools, seen) end
  local found = redis.call('SMEMBERS', pools.sets[1])
  for i = 2, #pools.sets do
    for _, name in ipairs(redis.call('SMEMBERS', pools.sets[i])) do
      found[#found + 1], pools.in_wide[name] = name, true
    end
  end
  return found
end

local function is_member(name, pools)
  for i, set in ipairs(pools.sets) do
    if redis.call('SISMEMBER', set, name) == 1 then
      if i > 1 then pools.in_wide[name] = true end
      return true
    end
  end
end

local function in_all(found, pools)
  for _, other in ipairs(pools.also) do
    if #found == 0 then return found end
    local both, inside = {}, redis.call('SMISMEMBER', other, unpack(found))
    for i, name in ipairs(found) do
      if inside[i] == 1 or pools.in_wide[name] then both[#both + 1] = name end
    end
    found = both
  end
  return found
end
