-- The best of the nodes that are in all pools, and all of these. The order learns whether any of them is well.
local function best_of(names, order, fleet, pools)
  local fit = in_all(names, pools)
  look_at(fit, fleet)
  local best, is_any_well = least_loaded(fit, fleet.nodes, order.excluded)
  if is_any_well and fleet.sick then order.is_any_well = true end
  return best, fit
end

-- A few members by chance; those of a batch come from one draw.
local function a_few(fleet, pools)
  local sample = pools.sample
  if not pools.drawn then
    pools.drawn = some_members(pools, math.min(sample * pools.orders, math.max(sample, pools.sample_k)))
    look_at(pools.drawn, fleet)
  end
  local drawn = pools.drawn
  if #drawn <= sample then return drawn end
  local few, first = {}, math.random(#drawn)
  for i = 0, sample - 1 do few[i + 1] = drawn[(first + i - 1) % #drawn + 1] end
  return few
end

-- The preferred node, else the best of a few members, of some more, of all; or nil and the reason.
local function search(order, fleet, pools, is_last)
  local preferred, best, fit = order.preferred, nil, nil
  if preferred and is_member(preferred, pools) then
    best, fit = best_of({preferred}, order, fleet, pools)
    if best then return best end
    local node = fleet.nodes[preferred]
    if order.is_only and #fit == 1 and not order.excluded[preferred] and node.is_fit and not node.is_quarantined then
      return nil, 'busy'
    end
  end
  if order.is_only then return nil, 'unfit' end
  local looked = a_few(fleet, pools)
  if #looked == 0 then return nil, 'nobody' end
  best, fit = best_of(looked, order, fleet, pools)
  if not best and #looked == pools.sample then
    looked = some_members(pools, pools.sample_k)
    best, fit = best_of(looked, order, fleet, pools)
  end
  if not best and #looked == pools.sample_k then best, fit = best_of(all_members(pools, fleet.seen), order, fleet, pools) end
  if best then return best end
  -- By now all members of the pool have been checked.
  if fleet.sick and not order.is_any_well then
    best = least_loaded(fit, fleet.nodes, order.excluded, true)
    if best and is_last then return best end
    if best then return nil, 'sick' end
  end
  if #fit == 0 then return nil, 'nobody' end
  for _, name in ipairs(fit) do
    if not order.excluded[name] then return nil, 'full' end
  end
  return nil, 'exhausted'
end

-- The node for one order, or nil and the reason. A node whose owner cannot be read counts as dead, and the next best one
-- is taken.
local function choose(order, fleet, pools, is_last)
  local best, why = search(order, fleet, pools, is_last)
  while best do
    local node = fleet.nodes[best]
    if not node.epoch then node.epoch, node.acks = read_owner(node.owner) end
    if node.epoch then return best end
    node.is_fit = false
    best, why = search(order, fleet, pools, is_last)
  end
  return nil, why
end
