// Owners of the C libraries' objects: one alias per type. Private to netlink/*.cc; no public header
// includes this.
//
// Ownership  A Handle frees what it holds, once. Where a C call takes ownership of its argument (a
//            rule of its expressions, a set of its elements), pass release().
// Source     libnftnl 1.2, libnl 3.7.
#pragma once

#include <cstdio>
#include <memory>

#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/object.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <libnftnl/udata.h>
#include <netlink/msg.h>

namespace nomad_bridge::netlink {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

template <typename T, auto Free>
using Handle = std::unique_ptr<T, Freer<Free>>;

// libnftnl
using NftnlTable = Handle<nftnl_table, nftnl_table_free>;
using NftnlChain = Handle<nftnl_chain, nftnl_chain_free>;
using NftnlSet = Handle<nftnl_set, nftnl_set_free>;
using NftnlElement = Handle<nftnl_set_elem, nftnl_set_elem_free>;
using NftnlElements = Handle<nftnl_set_elems_iter, nftnl_set_elems_iter_destroy>;
using NftnlRule = Handle<nftnl_rule, nftnl_rule_free>;
using NftnlExpression = Handle<nftnl_expr, nftnl_expr_free>;
using NftnlExpressions = Handle<nftnl_expr_iter, nftnl_expr_iter_destroy>;
using NftnlObject = Handle<nftnl_obj, nftnl_obj_free>;
using NftnlUserData = Handle<nftnl_udata_buf, nftnl_udata_buf_free>;

// libnl
using NlMessage = Handle<nl_msg, nlmsg_free>;

}  // namespace nomad_bridge::netlink
