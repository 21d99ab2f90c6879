-- Lease slots for jobs a node runs that no lease accounts for; a lease that is overdue is about to end, and accounts for
-- none. What was adopted before, and still runs, holds its slot for longer. The jobs adopted anew, and all leases it has.
local function adopt(node, jobs, deadline, moment, leases)
  local mine, accounted, current, adopted = leases_of(node, leases), {}, {}, {}
  for _, lease in ipairs(mine) do
    -- Each by itself: there may be more of them than one command takes.
    local until_ms = tonumber(redis.call('ZSCORE', leases, lease))
    if until_ms > moment then accounted[string.match(lease, '^(.-)#')], current[lease] = true, true end
  end
  local leased = #mine
  for _, job in ipairs(jobs) do
    local name = job .. '#0#' .. node
    if not accounted[job] and read_lease(name) then
      -- An overdue one of the same name only gets a new deadline.
      leased = leased + redis.call('ZADD', leases, deadline, name)
      accounted[job] = true
      adopted[#adopted + 1] = job
    elseif current[name] then
      redis.call('ZADD', leases, 'GT', deadline, name)
    end
  end
  return adopted, leased
end
