-- The epoch of a node and 1 if it acknowledges jobs, or nothing where its owner is missing or cannot be read.
local function read_owner(owner)
  return string.match(owner or '', '^(%d+) %S+ %S+ (%d)')
end

-- Text -> slots, or false. A shard has the same few numbers over and over, and reading one takes longer than to look it up.
local SLOTS = setmetatable({}, {__index = function(known, text)
  known[text] = read_slots(text) or false
  return known[text]
end})

-- Read into `fleet.nodes` what Redis knows of these nodes, each once. `fleet` has the keys; `sick` and `queues` are false
-- where they are empty, as they usually are.
local NONE = {}
local function look_at(names, fleet)
  local nodes, strange = fleet.nodes, nil
  for _, name in ipairs(names) do
    if not nodes[name] then
      strange = strange or {}
      strange[#strange + 1] = name
    end
  end
  if not strange then return end
  local alive_until = redis.call('ZMSCORE', fleet.seen, unpack(strange))
  local slots = redis.call('ZMSCORE', fleet.free, unpack(strange))
  local leased = redis.call('ZMSCORE', fleet.held, unpack(strange))
  local limit = redis.call('HMGET', fleet.limits, unpack(strange))
  local owner = redis.call('HMGET', fleet.owners, unpack(strange))
  local queued = fleet.queues and redis.call('HMGET', fleet.queues, unpack(strange)) or NONE
  local quarantined, due, lacking = NONE, NONE, NONE
  if fleet.sick then quarantined, due, lacking = ailing(strange, fleet.needs, fleet.moment, fleet.sick) end
  for i, name in ipairs(strange) do
    -- Unreadable limits are ignored, unreadable free slots count as 0, a missing count is derived from the others.
    local open = SLOTS[slots[i]]
    local most = SLOTS[limit[i]] or open or 0
    if open and open > most then open = most end
    nodes[name] = {
      is_fit = tonumber(alive_until[i] or 0) > fleet.moment and not lacking[name],
      is_quarantined = quarantined[name],
      is_due = due[name],
      owner = owner[i],
      open = open,
      running = SLOTS[leased[i]] or most - (open or 0),
      limit = most,
      queued = SLOTS[queued[i] or false] or 0,
    }
  end
end

-- Take a slot of a node. Only a probe is written at once; `write_slots` writes the slots of all nodes together.
local function take_slot(name, run_ms, fleet)
  local node = fleet.nodes[name]
  -- The one probe: no other job gets this node before there is a verdict, or its time is up.
  if node.is_due then
    redis.call('ZADD', fleet.sick, fleet.moment + run_ms, name)
    node.is_due, node.is_quarantined = false, true
  end
  node.open, node.running, fleet.taken[name] = node.open - 1, node.running + 1, true
  return node
end

local function write_slots(fleet)
  local open, running = {}, {}
  for name in pairs(fleet.taken) do
    local node = fleet.nodes[name]
    open[#open + 1], open[#open + 2] = node.open, name
    running[#running + 1], running[#running + 2] = node.running, name
  end
  redis.call('ZADD', fleet.free, unpack(open))
  redis.call('ZADD', fleet.held, unpack(running))
end
