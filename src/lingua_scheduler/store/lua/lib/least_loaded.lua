-- The least loaded of these nodes that can take a job, by chance between equals; and whether any of them is well, even
-- if it has no free slot. It decides by what is known in `nodes` (lib/fleet), and reads and writes nothing.
local function least_loaded(names, nodes, excluded, even_quarantined)
  local best, best_load, equals, is_any_well = nil, math.huge, 0, false
  for _, name in ipairs(names) do
    local node = nodes[name]
    local slots = node.open
    if slots and node.is_fit and node.owner and not excluded[name] then
      if not node.is_quarantined then is_any_well = true end
      if slots > 0 and (even_quarantined or not node.is_quarantined) then
        -- Jobs waiting for a node's GPU are load too, also if another scheduler sent them.
        local load = 1 - (slots - node.queued) / node.limit
        if load < best_load then
          best, best_load, equals = name, load, 1
        elseif load == best_load then
          equals = equals + 1
          if math.random(equals) == 1 then best = name end
        end
      end
    end
  end
  return best, is_any_well
end
